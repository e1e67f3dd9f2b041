"""Reading the box office: no writes, no locks."""
