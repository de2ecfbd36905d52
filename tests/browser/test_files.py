"""Files on the page: chosen, pasted and dropped, with progress, a kept place, and pictures over the whole page."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from playwright.async_api import FilePayload, Route, expect

from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
PASTE = """async ([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, { type: 'image/png' }));
  const field = document.querySelector('.composer textarea');
  field.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
}"""
DROP = """async ([name, bytes]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([new Uint8Array(bytes)], name, { type: 'text/plain' }));
  const place = document.querySelector('.thread-open');
  for (const kind of ['dragenter', 'dragover', 'drop']) {
    place.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
  }
}"""


def png(width: int, height: int, shade: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + bytes((shade, 90, 200)) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


async def test_pictures_and_files_are_sent_and_seen(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "send me the pictures")
    ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
    chosen: list[FilePayload] = [
        {"name": "first.png", "mimeType": "image/png", "buffer": png(600, 300, 10)},
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"some words"},
    ]
    await ann.page.locator('.thread-open input[type="file"]').set_input_files(chosen)
    await ann.page.evaluate(PASTE, ["second.png", list(png(300, 600, 200))])
    await ann.page.evaluate(DROP, ["more.txt", list(b"more words")])
    await expect(ann.page.locator(".attachment")).to_have_count(4)
    await ann.page.get_by_label("Remove more.txt").click()
    await expect(ann.page.locator(".attachment")).to_have_count(3)
    await ann.send("here they are")
    for person in (ann, bob):
        message = person.message("here they are")
        await expect(message.locator(".picture img[src]")).to_have_count(2)
        await expect(message.locator(".file")).to_contain_text("notes.txt")
    await expect(ann.page.locator(".attachment")).to_have_count(0)
    ratio = "el => Math.round(10 * el.getBoundingClientRect().width / el.getBoundingClientRect().height)"
    assert await bob.page.locator(".picture").first.evaluate(ratio) == 20, "the place has the shape of the picture"
    await bob.page.locator(".picture").first.click()
    box = bob.page.locator("dialog.lightbox")
    await expect(box).to_contain_text("first.png (1 / 2)")
    await bob.page.keyboard.press("ArrowRight")
    await expect(box).to_contain_text("second.png (2 / 2)")
    await bob.dismiss()
    await expect(box).to_have_count(0)
    async with bob.page.expect_download() as saved:
        await bob.page.locator(".file").click()
    assert (await saved.value).suggested_filename == "notes.txt"
    await expect(bob.row(me).locator(".row-preview")).to_contain_text("here they are")


EVIL = "localStorage.setItem('ran', 'yes'); document.title = 'ran'"
DOCUMENTS = {
    "page.html": ("text/html", f'<title>quiet</title><script>{EVIL}</script><img src=x onerror="{EVIL}">'),
    "drawing.svg": (
        "image/svg+xml",
        f'<svg xmlns="http://www.w3.org/2000/svg" onload="{EVIL}"><script>{EVIL}</script></svg>',
    ),
}


async def undressed(route: Route) -> None:
    """The answer as a browser would get it that ignores `Content-Disposition`, and shows what it should save."""
    answer = await route.fetch()
    kept = {name: value for name, value in answer.headers.items() if name != "content-disposition"}
    await route.fulfill(response=answer, headers=kept)


async def test_documents_that_people_send_never_run_in_our_origin(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    ann = await (await people(me)).open(await seeds.direct(me, named("bob")))
    chosen: list[FilePayload] = [
        {"name": name, "mimeType": mime, "buffer": text.encode()} for name, (mime, text) in DOCUMENTS.items()
    ]
    await ann.page.locator('.thread-open input[type="file"]').set_input_files(chosen)
    await expect(ann.page.locator(".attachment")).to_have_count(2)
    await ann.send("look at these")
    await expect(ann.message("look at these").locator(".file")).to_have_count(2)
    for name in DOCUMENTS:
        async with ann.page.expect_download() as saved:  # saved, and not shown
            await ann.page.locator(".file", has_text=name).click()
        url = (await saved.value).url
        other = await ann.page.context.new_page()
        await other.route("**/v1/downloads/**", undressed)
        await other.goto(url)
        assert await other.title() != "ran"
        await other.close()
    assert await ann.page.evaluate("localStorage.getItem('ran')") is None


async def test_a_message_may_be_files_alone(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    ann = await (await people(me)).open(await seeds.direct(me, named("bob")))
    button = ann.page.get_by_role("button", name="Send", exact=True)
    await expect(button).to_be_hidden()
    file: FilePayload = {"name": "only.png", "mimeType": "image/png", "buffer": png(40, 40, 90)}
    await ann.page.locator('.thread-open input[type="file"]').set_input_files([file])
    await expect(button).to_be_enabled()
    await button.click()
    await expect(ann.page.locator(".message .picture img[src]")).to_have_count(1)


LINKS = """async () => {
  const { FileViews } = await import('/web/app/files/show.js');
  let links = 0;
  window.views = new FileViews({ rest: async () => ({ url: `https://store.example/file?link=${links += 1}` }) });
}"""
LINK = "() => window.views.picture({ id: 'c' }, 'f')"


async def test_a_link_to_a_store_of_its_own_is_not_used_after_its_end(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    await ann.page.clock.install()
    await ann.page.evaluate(LINKS)
    assert await ann.page.evaluate(LINK) == await ann.page.evaluate(LINK) == "https://store.example/file?link=1"
    await ann.page.clock.fast_forward(61_000)
    assert await ann.page.evaluate(LINK) == "https://store.example/file?link=2"


UPLOAD = """async () => {
  const { upload } = await import('/web/app/files/upload.js');
  const parts = [{ method: 'PUT', url: '/part', headers: {}, from: 0, to: 2 }];
  const client = { rest: async () => ({ fileId: 'f', parts }) };
  const sent = upload(client, { id: 'c' }, new Blob(['hi']), {}, () => {}, new AbortController().signal);
  return sent.then(() => 'there', (error) => error.message);
}"""


async def test_a_part_is_sent_again_only_where_another_try_may_be_taken(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    answers = [(429, ""), (400, "<Code>RequestTimeout</Code>"), (200, "")]
    asked: list[int] = []

    async def answer(route: Route) -> None:
        status, body = answers.pop(0) if answers else (403, "<Code>AccessDenied</Code>")
        asked.append(status)
        await route.fulfill(status=status, body=body)

    await ann.page.route("**/part", answer)
    assert await ann.page.evaluate(UPLOAD) == "there"
    assert await ann.page.evaluate(UPLOAD) == "status 403"
    assert asked == [429, 400, 200, 403]
