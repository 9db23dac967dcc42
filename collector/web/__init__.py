"""The listener: what people, scrapers, load balancers and workers ask over HTTP. Glue only; every answer is made elsewhere."""
