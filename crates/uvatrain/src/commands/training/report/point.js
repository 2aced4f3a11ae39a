// What lies under the pointer, told beside it: a finger gets nothing of a title.
const box = document.createElement("div");
box.className = "told";
box.hidden = true;
document.body.append(box);
const hide = () => { box.hidden = true; };
for (const area of document.querySelectorAll(".hover")) {
  const title = area.querySelector("title");
  const show = (event) => {
    box.textContent = title.textContent;
    box.hidden = false;
    const room = [innerWidth - box.offsetWidth - 8, innerHeight - box.offsetHeight - 8];
    box.style.left = Math.max(8, Math.min(event.clientX + 14, room[0])) + "px";
    box.style.top = Math.max(8, Math.min(event.clientY + 14, room[1])) + "px";
  };
  title.remove();
  area.addEventListener("pointermove", show);
  area.addEventListener("pointerdown", (event) => { event.stopPropagation(); show(event); });
  // A finger that is lifted leaves the text to be read.
  area.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
}
for (const kind of ["pointerdown", "scroll"]) addEventListener(kind, hide);
