#!lua
-- unread_install: put a rebuilt conversation in place, if nothing happened to the user since it was read.
-- Atomic because set, mark and totals must appear together.
-- KEYS  inbox  mark  unread  aside
-- ARGV  epoch  conversation_id  gen  packed_mark  shown  ttl_s
-- returns {state, total}   1 installed (or not in the inbox: nothing to keep); 0 overtaken, read again; -1 the user is
--         COLD. total -1: not known now
-- cost O(1)
local inbox, mark, unread, aside, id, shown = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2], tonumber(ARGV[5])
local m = redis.call('HMGET', mark, ':epoch', '*', ':gen', ':unread', ':convs', ':cold', id)
if m[1] ~= ARGV[1] or not m[2] then
  redis.call('UNLINK', aside)
  return {-1, -1}
end
if m[3] ~= ARGV[3] or m[7] then
  redis.call('UNLINK', aside)
  return {0, -1}
end
if not redis.call('ZSCORE', inbox, id) then
  redis.call('UNLINK', aside, unread)
  return {1, tonumber(m[6]) > 0 and -1 or tonumber(m[4])}
end
if redis.call('EXISTS', aside) == 1 then
  redis.call('RENAME', aside, unread)
  redis.call('EXPIRE', unread, ARGV[6])
else
  redis.call('UNLINK', unread)
end
local total, cold = m[4] + shown, m[6] - 1
redis.call('HSET', mark, id, ARGV[4], ':unread', total, ':convs', m[5] + (shown > 0 and 1 or 0), ':cold', cold)
return {1, cold > 0 and -1 or total}
