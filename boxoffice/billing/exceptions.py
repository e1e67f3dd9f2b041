"""What can go wrong about money spent on models."""

from boxoffice.common.exceptions import BoxOfficeError


class PriceMissing(BoxOfficeError):
    """No model has a price: nothing can be accounted for, so nothing may be spent."""

    code = "price_missing"
    status = 503
    hint = "An operator must enter model prices in the console."
