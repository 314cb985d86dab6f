"""What comes out of sharing a cluster: `columns.SharingResult` (a row per app), `grants` (every decision), `metrics`
(finish-time fairness and others, Themis §6.1), `timeline` and `views` (pictures)."""
