// The page at /docs: a button beside each command copies it, with the address of this node in it.

for (const command of document.querySelectorAll('pre.curl')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy as curl';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(command.textContent.replaceAll('$URL', location.origin));
    button.textContent = 'Copied';
    setTimeout(() => (button.textContent = 'Copy as curl'), 2000);
  });
  command.after(button);
}
