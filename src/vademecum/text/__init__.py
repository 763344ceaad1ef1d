"""Pure text: the structure of Markdown, tokens of every script, queries, and how many tokens a model will see."""
