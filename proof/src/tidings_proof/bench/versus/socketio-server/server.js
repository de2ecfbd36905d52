// A Socket.IO server with the settings that its own pages advise for speed: WebSocket alone, no compression, the native
// bufferutil, and no reference kept to the first HTTP request of a connection. It checks each token, numbers messages in
// memory and stores nothing. An acknowledgement says that this handler ran.
const { createHmac, timingSafeEqual } = require("crypto");
const { createServer } = require("http");
const { Server } = require("socket.io");

const [port, secret] = [Number(process.argv[2]), process.env.SECRET];
const conversations = new Map(); // id -> the number of its last message
const joined = new Map(); // user -> ids of conversations

function userOf(token) {
  const [head, claims, signature] = token.split(".");
  const right = createHmac("sha256", secret).update(`${head}.${claims}`).digest();
  if (!timingSafeEqual(right, Buffer.from(signature, "base64url"))) throw new Error("bad token");
  return JSON.parse(Buffer.from(claims, "base64url")).sub;
}

async function create(request) {
  const members = [userOf(request.headers.authorization.split(" ")[1])];
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  members.push(...JSON.parse(Buffer.concat(chunks)).members);
  const conversation_id = `c${conversations.size}`;
  conversations.set(conversation_id, 0);
  for (const user of members) joined.set(user, [...(joined.get(user) ?? []), conversation_id]);
  return { conversation_id };
}

const web = createServer(async (request, response) => {
  const body = request.method === "POST" ? await create(request) : { status: "ok" };
  response.setHeader("Content-Type", "application/json").end(JSON.stringify(body));
});

const io = new Server(web, { transports: ["websocket"], perMessageDeflate: false, serveClient: false });
io.engine.on("connection", (raw) => {
  raw.request = null;
});
io.use((socket, next) => {
  try {
    socket.data.user = userOf(socket.handshake.auth.token);
    next();
  } catch (error) {
    next(error);
  }
});
io.on("connection", (socket) => {
  socket.join(joined.get(socket.data.user) ?? []);
  socket.on("message.send", ({ conversation_id, message_id, text }, acknowledge) => {
    if (!socket.rooms.has(conversation_id)) return;
    const seq = conversations.get(conversation_id) + 1;
    conversations.set(conversation_id, seq);
    const message = { conversation_id, message_id, seq, sender_id: socket.data.user, text, sent_at: Date.now() };
    socket.to(conversation_id).emit("message.new", message);
    acknowledge({ message_id, seq });
  });
});
web.listen(port, "127.0.0.1");
