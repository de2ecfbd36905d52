#!lua
-- unread_put: leave a marker that a commit of this user to the tables is under way, or remove it when the keyspace has
-- followed. A marker that stays (its node died in between) makes its conversation COLD once its time is over, or all
-- of the user where it names no conversation. A marker with the same token takes the place of the earlier one.
-- Atomic because a node must remove no marker but its own: several devices change at the same time.
-- KEYS  mark
-- ARGV  epoch  token  hold_ms  ttl_s  conversation_id    (hold_ms 0: it has followed; below: its time is over already)
-- returns 1
-- cost O(markers)
-- include marker
local mark, token = KEYS[1], ARGV[2]
local notes = redis.call('HGET', mark, ':put')
if tonumber(ARGV[3]) == 0 then
  remove_marker(mark, notes, token)
  return 1
end
if tonumber(ARGV[3]) < 0 and ARGV[5] == '' and redis.call('HDEL', mark, '*') == 1 then
  return 1 -- a warm user is COLD at once, whatever the clock does; a rebuild under way needs the marker
end
local now = redis.call('TIME')
local due = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3]
local kept, is_in = {}, false
for note in string.gmatch(notes or '', '%S+') do -- the earliest first
  if not is_in and tonumber(string.match(note, '^%d+')) > due then
    kept[#kept + 1], is_in = string.format('%.0f:%s:%s', due, ARGV[5], token), true
  end
  if string.sub(note, -#token) ~= token then
    kept[#kept + 1] = note
  end
end
if not is_in then
  kept[#kept + 1] = string.format('%.0f:%s:%s', due, ARGV[5], token)
end
redis.call('HSET', mark, ':put', table.concat(kept, ' '))
if redis.call('HLEN', mark) == 1 then
  redis.call('EXPIRE', mark, ARGV[4])
end
return 1
