"""HAMi's golden values: what goes into its own tests, and what must come out of them there and here."""
