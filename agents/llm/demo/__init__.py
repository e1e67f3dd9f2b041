"""The demo model: a Messages API inside the process, driven by rules instead of a network.

It serves installations without a key. Like a model it knows nothing but the request: what to do
next comes from the system prompt, the messages and the offered tools, and no id is made up.
"""

from agents.llm.demo.server import DEMO_TOKEN_DELAY_MS, DemoServer, start_demo_server

__all__ = ["DEMO_TOKEN_DELAY_MS", "DemoServer", "start_demo_server"]
