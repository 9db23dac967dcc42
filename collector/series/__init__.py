"""Numbers over time: exact sliding counts, quantile histograms and sampled gauges, all in memory, all columnar."""
