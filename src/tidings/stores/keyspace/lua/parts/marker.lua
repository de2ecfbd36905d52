-- marker: a note in `:put` that a commit of the user to the tables is under way.
-- Remove the marker of this token from the notes. Answers the notes that are left; false: none.
local function remove_marker(mark, notes, token)
  local left = {}
  for note in string.gmatch(notes or '', '%S+') do
    if string.sub(note, -#token) ~= token then
      left[#left + 1] = note
    end
  end
  if #left > 0 then
    local text = table.concat(left, ' ')
    redis.call('HSET', mark, ':put', text)
    return text
  elseif notes then
    redis.call('HDEL', mark, ':put')
  end
  return false
end
