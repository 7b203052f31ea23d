"""Which bytes a source consists of: discovery, splits, and how a file's columns meet the declared ones."""
