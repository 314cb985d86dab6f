"""What Themis says in footnotes, measured."""
