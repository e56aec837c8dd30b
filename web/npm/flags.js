// flagsOf turns options into flags of the command: {dim: {batch: 8}, noInplace: true} is
// --dim=batch=8 --no-inplace. Options are named as the flags, with capitals for dashes.
export function flagsOf(options) {
  const flags = [];
  const add = (name, value) => {
    if (value === undefined || value === null || value === false && name !== "aliases") return;
    const flag = "--" + name.replace(/[A-Z]/g, (c) => "-" + c.toLowerCase());
    if (value === true) flags.push(flag);
    else if (value === false) flags.push(flag.replace("--", "--no-"));
    else if (Array.isArray(value)) value.forEach((v) => add(name, v));
    else if (typeof value === "object") Object.entries(value).forEach(([k, v]) => flags.push(`${flag}=${k}=${v}`));
    else flags.push(`${flag}=${value}`);
  };
  Object.entries(options).forEach(([name, value]) => add(name, value));
  return flags;
}
