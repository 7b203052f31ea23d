"""Task groups: folders of pipelines."""
