"""The site: Tracker, Gateway and relay in one deployable.

Invariant: imports run one way, `openai_api, chat -> gateway -> routes -> control_plane -> billing -> nodes ->
catalog -> accounts -> database`; `config` and `commands` wire them; `relay` knows only `meshnet`. It never imports
`node_app`.
"""
