#!lua
-- unread_chill: make one conversation of a user COLD before its rebuild, so that nothing is counted into it meanwhile.
-- Atomic because the count must leave the totals in the moment its mark goes.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id  cap  version             (a mark of this version or a later one is good as it is)
-- returns {1, mark} good, {0, gen} COLD as of gen, {2, ''} not in the inbox, {-1, ''} all of the user is COLD
-- cost O(1)
local inbox, mark, id = KEYS[1], KEYS[2], ARGV[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id, '~' .. id)
if m[1] ~= ARGV[1] or not (m[2] and m[3] and m[4] and m[5]) then
  return {-1, ''}
end
if m[7] then
  return {0, m[7]}
end
local is_listed = redis.call('ZSCORE', inbox, id)
if not m[6] then
  if not is_listed then
    return {2, ''}
  end
  redis.call('HDEL', mark, '*') -- its mark was lost, and the totals with it
  return {-1, ''}
end
local version, seen, count, floor = string.match(m[6], '^%[(%d+),%d+,(%d+),(%d+),%d+,(%d+),')
if tonumber(version) >= tonumber(ARGV[4]) then
  return {1, m[6]}
end
local shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[3]) or tonumber(count)
local gen = string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1))
redis.call('HSET', mark, ':cold', m[5] + 1, ':unread', m[3] - shown, ':convs', m[4] - (shown > 0 and 1 or 0),
  '~' .. id, gen)
redis.call('HDEL', mark, id)
return {0, gen}
