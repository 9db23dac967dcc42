"""The listener: what people, scrapers, load balancers and workers ask over HTTP. Glue only.

Every answer is made elsewhere.
"""
