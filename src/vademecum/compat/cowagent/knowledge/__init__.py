"""What a host imports from its ``agent.knowledge``."""
