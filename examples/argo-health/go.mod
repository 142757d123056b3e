// A module of its own: the clients need no Lua.
module bellwether/examples/argo-health

go 1.26.0

require github.com/yuin/gopher-lua v1.1.2
