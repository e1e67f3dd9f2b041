"""The demo's tenants, tiers and people."""
