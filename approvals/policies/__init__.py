"""Policy as data: rules over what an agent wants to do, in versions, for one tenant each."""
