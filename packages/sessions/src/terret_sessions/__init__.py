"""The append-only session log of Terret and its persistence seam."""
