"""In the place of other systems' memories: their names, their files and their envelopes over ours."""
