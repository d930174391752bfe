"""Where the data of the built-in jobs come from: files, archives, folders, and a cache of what they became."""
