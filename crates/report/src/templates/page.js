(() => {
  const tip = document.getElementById("tip");
  const textOf = (node) => {
    const holder = node.closest("[data-tip]");
    if (holder) return holder.dataset.tip;
    const part = node.closest("svg path, svg g.series, svg rect.target");
    const title = part && (part.querySelector(":scope > title") || (part.closest("g.series") || part).querySelector(":scope > title"));
    return title ? title.textContent : "";
  };
  // Native tooltips of titles would cover ours; their text is kept for screen readers as labels.
  document.querySelectorAll("svg g.series title").forEach((title) => {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  });
  document.addEventListener("pointerover", (event) => {
    if (!(event.target instanceof Element)) return;
    const text = textOf(event.target);
    tip.hidden = !text;
    tip.textContent = text;
    const series = event.target.closest("g.series");
    document.querySelectorAll("svg.picking").forEach((svg) => {
      svg.classList.remove("picking");
      svg.querySelectorAll(".picked").forEach((other) => other.classList.remove("picked"));
    });
    if (series) {
      series.classList.add("picked");
      series.ownerSVGElement.classList.add("picking");
    }
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
  });
  // A link to a folded section unfolds it.
  const unfold = () => {
    const target = location.hash.length > 1 && !location.hash.includes("=") && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
  // Everything is printed, folded or not.
  let folded = [];
  addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((part) => { part.open = true; }); });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
