"""The site: Tracker, Gateway and relay, deployed together.

Invariant: imports run one way, `openai_api, chat -> gateway -> routes -> control_plane -> billing -> nodes ->
catalog -> accounts -> database`. `config` and `commands` wire the apps together. `relay` imports only `meshnet`. No
module of the site imports `node_app`.
"""
