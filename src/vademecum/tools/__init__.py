"""What agents hold of memory: tools with schemas, in the dialects of the models that call them."""

from vademecum.tools.answers import Answer
from vademecum.tools.handlers import Tools
from vademecum.tools.specs import PROFILES, Profile, ToolSpec, anthropic_tools, openai_tools, tool_specs

__all__ = ["PROFILES", "Answer", "Profile", "ToolSpec", "Tools", "anthropic_tools", "openai_tools", "tool_specs"]
