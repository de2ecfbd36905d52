-- whole: is everything of this user there, as the totals `t` say? Needs `mark`.
-- Otherwise the user is COLD from here on, and the next reader rebuilds. A marker whose time is over is
-- that of a node that died between the tables and the keyspace: its conversation goes COLD, or all of the user where it
-- names none. Then `t` holds the totals without the conversation.
local function chill(inbox, mark, t, id, cap)
  if not id or id == '' then
    return false
  end
  local fields = redis.call('HMGET', mark, id, '~' .. id)
  if not (fields[1] or fields[2]) then
    return false
  end
  if fields[1] then
    withdraw(inbox, t, id, fields[1], cap)
    t.cold = t.cold + 1
    keep_totals(mark, t)
    redis.call('HDEL', mark, id)
  end
  redis.call('HSET', mark, '~' .. id, next_gen(mark))
  return true
end

local function has_all(inbox, mark, t)
  local sizes = {t.convs, t.mentioned, t.muted, t.archived, t.pinned, t.large}
  for i, name in ipairs({'unread', 'mentions', 'muted', 'archived', 'pinned', 'large'}) do
    if sizes[i] > 0 and redis.call('ZCARD', inbox .. ':' .. name) ~= sizes[i] then
      return false
    end
  end
  return redis.call('ZCARD', inbox) == t.size
    and redis.call('HLEN', mark) == 7 + t.size + t.archived + t.large + (t.put and 1 or 0)
end

local function is_whole(inbox, mark, t, cap)
  local whole = has_all(inbox, mark, t)
  if t.put then -- the earliest marker comes first
    local time = redis.call('TIME')
    local now, left = time[1] * 1000 + time[2] / 1000, {}
    if tonumber(string.match(t.put, '^%d+')) < now then
      for note in string.gmatch(t.put, '%S+') do
        if tonumber(string.match(note, '^%d+')) >= now then
          left[#left + 1] = note -- its time is not over
        elseif not (whole and chill(inbox, mark, t, string.match(note, '^%d+:([^:]*):'), cap)) then
          whole = false
        end
      end
      redis.call('HDEL', mark, ':put')
      if #left > 0 then
        redis.call('HSET', mark, ':put', table.concat(left, ' '))
      end
    end
  end
  if not whole then
    redis.call('HDEL', mark, '*')
  end
  return whole
end
