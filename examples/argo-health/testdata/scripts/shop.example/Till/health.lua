-- A till of our own, for the tests: it uses what scripts of Argo CD use.
local os = require("os")
local hs = { status = "Progressing", message = "the till starts" }
if obj.status == nil then
  return hs
end
if obj.status.mode == "nothing" then
  return nil
elseif obj.status.mode == "empty" then
  return {}
elseif obj.status.mode == "odd" then
  return { status = "Splendid" }
elseif obj.status.mode == "text" then
  return "Healthy"
elseif obj.status.mode == "number" then
  return { status = "Healthy", message = 7 }
elseif obj.status.mode == "endless" then
  while true do end
elseif obj.status.mode == "greedy" then
  local text = "x"
  while true do text = text .. text end
elseif obj.status.mode == "table" then
  local all = {}
  while true do table.insert(all, { 1, 2, 3 }) end
elseif obj.status.mode == "rep" then
  return { status = "Healthy", message = string.rep("x", 1e9) }
elseif obj.status.mode == "deep" then
  local function deeper(n) return 1 + deeper(n + 1) end
  deeper(1)
elseif obj.status.mode == "files" then
  assert(io == nil and dofile == nil and loadfile == nil and os.execute == nil and os.remove == nil)
  local found = pcall(require, "shop")
  return { status = "Healthy", message = tostring(found) }
elseif obj.status.mode == "clock" then
  return { status = "Healthy", message = os.date("!%Y-%m-%d", 86400) .. " " .. type(os.time()) }
end
local messages = {}
for i, condition in ipairs(obj.status.conditions or {}) do
  if condition.type == "Open" and condition.status == "True" then
    hs.status = "Healthy"
    hs.message = "open with " .. tostring(obj.status.drawers)
  elseif condition.status == "False" then
    hs.status = "Degraded"
    table.insert(messages, condition.message)
  end
end
print("this is no answer")
if 0 < #messages then
  table.sort(messages)
  hs.message = table.concat(messages, ", ")
end
return hs
