"""The Azure Functions traces of 2019 (MAF1) and 2021 (MAF2): read, fetched, or drawn with their published character."""
