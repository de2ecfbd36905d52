"""The page as a browser loads it: few requests, small, kept for ever."""
