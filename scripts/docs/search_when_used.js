// The theme requests the words of all pages (300 kB) with each page. This lets that request, the only one of its kind, wait
// until the reader turns to the search, or comes from it.
(() => {
  const { send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.send = function () {
    XMLHttpRequest.prototype.send = send;
    const { searchParams } = new URL(location);
    if (searchParams.has("q") || searchParams.has("h")) return send.call(this);
    document.querySelector("[data-md-component=search-query]").addEventListener("focus", () => send.call(this), { once: true });
  };
})();
