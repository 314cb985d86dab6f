"""The Azure Functions traces of 2019 (MAF1) and 2021 (MAF2).

`maf1` and `maf2` read them, `fetch` downloads them, and `synthetic` draws traces of similar character where they are
not at hand. `published` draws the very arrivals behind AlpaServe's figures.
"""
