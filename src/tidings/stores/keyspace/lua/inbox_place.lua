#!lua
-- inbox_place: put some unread sets of a rebuild in place, before the index that shows them. Nobody counts into a set
-- or reads it while its user is COLD. So a big user is installed in slices, and no slice stops the server for long.
-- Atomic because a rebuild that another node took over must not touch the sets of a user who is warm by now.
-- KEYS  mark  [unread  unread_aside ...]
-- ARGV  epoch  token  ttl_s
-- returns 1 placed; 0 not: somebody else has it in hand, or a set that was built aside was lost
-- cost O(sets)
-- include jitter
local is_ours = redis.call('HGET', KEYS[1], ':begun') == ARGV[1] .. ':' .. ARGV[2]
local ttl_s = jittered(tonumber(ARGV[3]))
for i = 2, #KEYS, 2 do
  if not is_ours or redis.call('EXISTS', KEYS[i + 1]) == 0 then
    return 0
  end
  redis.call('RENAME', KEYS[i + 1], KEYS[i])
  redis.call('EXPIRE', KEYS[i], ttl_s)
end
return is_ours and 1 or 0
