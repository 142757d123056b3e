
// Copies the command of a button. The name of the button says that it is done, for a screen reader too.
async function copy(button) {
  if (!button || !navigator.clipboard) return;
  await navigator.clipboard.writeText(button.previousElementSibling.textContent);
  const [text, label] = [button.textContent, button.getAttribute('aria-label')];
  if (button.isSaid) return;
  button.isSaid = true;
  button.textContent = 'Copied';
  button.setAttribute('aria-label', 'Copied');
  setTimeout(() => {
    button.isSaid = false;
    button.textContent = text;
    button.setAttribute('aria-label', label);
  }, 2000);
}
