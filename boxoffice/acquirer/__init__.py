"""The demo's payment provider: another party, that ships with the product.

It speaks HTTP, keeps its own record, and knows nothing of tenants, orders or agents.
"""
