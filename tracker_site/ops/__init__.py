"""Operation of the site: health, metrics, background jobs, and the processes of `meshnet site serve`."""
