-- Folds the first blocks of an application: writes the newest entries in fewer blocks, and removes
-- the other fields that had them. Returns 1, or 0 if nothing was written, because the blocks are not
-- the ones that the caller has read: another process has folded them, the application was deleted,
-- or another master serves. Blocks that were written since stay as they are: their numbers are
-- higher.
--
-- ARGV has the epoch floor and the history id of the master that was read, the revision of the first
-- block ever and the number of the first one now, that number after the fold, the counts of entries
-- before and after, the count of fields to set, these with their values, and the fields to remove.

local app, state = KEYS[1], KEYS[2]
local counts_above, history, born, first, new_first, entries, kept = unpack(ARGV, 1, 7)
local sets_at = 9
local removed_at = sets_at + 2 * tonumber(ARGV[8])

-- The call before this one in the pipeline has removed the note of another master (commit.lua).
local noted = redis.call('HMGET', state, 'master', 'counts_above', 'history')
local found = {string.match(redis.call('HGET', app, 'b') or '', '^(%d+) (%d+) (%d+) (%d+)$')}
if not noted[1] or noted[2] ~= counts_above or noted[3] ~= history or found[1] ~= born
    or found[2] ~= first then
  return 0
end
for i = removed_at, #ARGV, 1000 do
  redis.call('HDEL', app, unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
for i = sets_at, removed_at - 1, 1000 do
  redis.call('HSET', app, unpack(ARGV, i, math.min(i + 999, removed_at - 1)))
end
local left = string.format('%.0f', found[4] - entries + kept)
redis.call('HSET', app, 'b', table.concat({born, new_first, found[3], left}, ' '))
return 1
