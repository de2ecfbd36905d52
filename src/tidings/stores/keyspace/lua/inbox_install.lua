#!lua
-- inbox_install: put a user's whole rebuilt index in place; its unread sets are there already (inbox_place).
-- Conversations that changed since the rebuild began come COLD: they are read again one by one, so a busy user is not
-- rebuilt for ever.
-- Atomic because a half-built inbox must never be seen.
-- KEYS  inbox  mark  inbox_aside  mark_aside
-- ARGV  epoch  token  size  unread_total  conversations  more  cap  ttl_s
-- returns 1 installed; 0 not: somebody else has it in hand, or something built aside was lost
-- cost O(conversations that changed since the rebuild began)
-- include mark
-- include jitter
local inbox, mark, inbox_aside, mark_aside = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local cap, ttl_s = ARGV[7], jittered(tonumber(ARGV[8]))

redis.call('HSET', mark_aside, ':epoch', ARGV[1], '*', ARGV[3], ':unread', ARGV[4], ':convs', ARGV[5], ':more', ARGV[6],
  ':cold', 0)
local t = totals_of(mark_aside, ARGV[1])
local names = {'unread', 'mentions', 'muted', 'archived', 'pinned', 'large'}
local sizes = {t.convs, t.mentioned, t.muted, t.archived, t.pinned, t.large}
local is_whole = redis.call('HGET', mark, ':begun') == ARGV[1] .. ':' .. ARGV[2]
  and redis.call('ZCARD', inbox_aside) == t.size and redis.call('HLEN', mark_aside) == 6 + t.size + t.archived + t.large
for i, name in ipairs(names) do
  is_whole = is_whole and redis.call('ZCARD', inbox_aside .. ':' .. name) == sizes[i]
end
if not is_whole then
  redis.call('UNLINK', inbox_aside, mark_aside)
  for _, name in ipairs(names) do
    redis.call('UNLINK', inbox_aside .. ':' .. name)
  end
  return 0
end

local noted = redis.call('HGETALL', mark)
redis.call('UNLINK', inbox, mark)
if t.size > 0 then
  redis.call('RENAME', inbox_aside, inbox)
end
redis.call('RENAME', mark_aside, mark)
for i, name in ipairs(names) do
  redis.call('UNLINK', inbox .. ':' .. name)
  if sizes[i] > 0 then
    redis.call('RENAME', inbox_aside .. ':' .. name, inbox .. ':' .. name)
    redis.call('EXPIRE', inbox .. ':' .. name, ttl_s)
  end
end
local gen = 0
for i = 1, #noted, 2 do
  if noted[i] == ':put' then
    redis.call('HSET', mark, ':put', noted[i + 1])
  elseif noted[i] == ':gen' then
    gen = tonumber(noted[i + 1])
  end
end
for i = 1, #noted, 2 do
  if string.sub(noted[i], 1, 1) == '+' then
    local id, score = string.sub(noted[i], 2), tonumber(noted[i + 1])
    local packed = redis.call('HGET', mark, id)
    if packed then
      withdraw(inbox, t, id, packed, cap)
      redis.call('HDEL', mark, id)
    end
    if score > 0 then
      local home = home_of(inbox, id)
      local added = redis.call('ZADD', home or inbox, 'GT', score, id)
      t.size = t.size + added
    end
    if packed or score > 0 then
      t.cold, gen = t.cold + 1, gen + 1
      redis.call('HSET', mark, '~' .. id, string.format('%.0f', gen))
    end
  end
end
keep_totals(mark, t)
redis.call('HSET', mark, ':gen', string.format('%.0f', gen))
redis.call('EXPIRE', mark, ttl_s)
if t.size > 0 then
  redis.call('EXPIRE', inbox, ttl_s)
end
return 1
