#!lua
-- unread_put: note that something of this user is about to be committed to the tables, or that the keyspace has
-- followed. A note that stays (its node died between the two) makes the user COLD once its time is over.
-- Atomic because a node must take back no note but its own.
-- KEYS  mark
-- ARGV  epoch  token  hold_ms  ttl_s                     (hold_ms 0: it has followed)
-- returns 1
-- cost O(1)
local mark, token = KEYS[1], ARGV[2]
if tonumber(ARGV[3]) == 0 then
  local note = redis.call('HGET', mark, ':put')
  if note and string.sub(note, -#token) == token then
    redis.call('HDEL', mark, ':put')
  end
  return 1
end
local now = redis.call('TIME')
local until_ms = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3]
redis.call('HSET', mark, ':put', string.format('%.0f:%s', until_ms, token))
if redis.call('HLEN', mark) == 1 then
  redis.call('EXPIRE', mark, ARGV[4])
end
return 1
