#!lua
-- inbox_install: put a user's whole rebuilt index in place, if nothing happened to the user since it was read.
-- Atomic because a half-built inbox must never be seen.
-- KEYS  inbox  mark  inbox_aside  mark_aside  [unread  unread_aside ...]
-- ARGV  epoch  gen  size  unread_total  conversations  ttl_s
-- returns 1 installed, or warm already; 0 overtaken, read again
-- cost O(conversations with unread)
local inbox, mark, inbox_aside, mark_aside = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local m = redis.call('HMGET', mark, ':epoch', '*', ':gen')
local is_warm = m[1] == ARGV[1] and m[2]
if is_warm or (m[3] or '0') ~= ARGV[2] then
  redis.call('UNLINK', inbox_aside, mark_aside)
  for i = 6, #KEYS, 2 do
    redis.call('UNLINK', KEYS[i])
  end
  return is_warm and 1 or 0
end
redis.call('UNLINK', inbox, mark)
if redis.call('EXISTS', inbox_aside) == 1 then
  redis.call('RENAME', inbox_aside, inbox)
  redis.call('EXPIRE', inbox, ARGV[6])
end
if redis.call('EXISTS', mark_aside) == 1 then
  redis.call('RENAME', mark_aside, mark)
end
redis.call('HSET', mark, ':epoch', ARGV[1], ':gen', ARGV[2], '*', ARGV[3], ':unread', ARGV[4], ':convs', ARGV[5], ':cold', 0)
redis.call('EXPIRE', mark, ARGV[6])
for i = 5, #KEYS, 2 do
  redis.call('RENAME', KEYS[i + 1], KEYS[i])
  redis.call('EXPIRE', KEYS[i], ARGV[6])
end
return 1
