"""What writes memory by itself: conversations become notes, notes become long-term memory."""
