'use strict'
// What OpenPAI's reader and its kind of schema engine say of v2 jobs: js-yaml 3.13 and ajv 6, with our schema,
// and the rules that no schema can say.  In: documents, each as its length in bytes, a line feed, and the
// bytes.  Out: a line each, `+` or `-` and why.
const fs = require('fs')
const path = require('path')
const modules = process.argv[2]
const yaml = require(path.join(modules, 'js-yaml'))
const Ajv = require(path.join(modules, 'ajv'))

const schema = JSON.parse(fs.readFileSync(process.argv[3]))
const valid = new Ajv({ unknownFormats: 'ignore', logger: false }).compile(schema)

const first = items => {
  const seen = new Set()
  return items.find(item => seen.size === seen.add(item).size)
}
// Members of any type may be missing or null.
const list = v => (Array.isArray(v) ? v : [])
const map = v => (v && typeof v === 'object' && !Array.isArray(v) ? v : {})

function crossReferences (job) {
  const all = list(job.prerequisites)
  const named = new Set(all.map(p => p.name))
  const known = new Set(all.map(p => p.type + ' ' + p.name))
  const twice = first(all.map(p => p.type + ' ' + p.name))
  if (twice !== undefined) return 'prerequisite twice'
  const deployments = list(job.deployments).map(d => d.name)
  if (first(deployments) !== undefined) return 'deployment twice'
  for (const role of Object.values(map(job.taskRoles))) {
    if (list(role.prerequisites).some(name => !named.has(name))) return 'no such prerequisite'
    const used = { script: role.script, output: role.output, data: role.data, dockerimage: role.dockerImage }
    for (const [type, name] of Object.entries(used)) {
      if (name !== undefined && !known.has(type + ' ' + name)) return 'no such ' + type
    }
  }
  const wanted = map(job.defaults).deployment
  if (wanted !== undefined && !deployments.includes(wanted)) return 'no such deployment'
  return null
}

function verdict (text) {
  let job
  try {
    job = yaml.safeLoad(text)
  } catch (e) {
    return '-yaml: ' + String(e.reason || e.message).split('\n')[0]
  }
  if (!valid(job)) return '-schema: ' + valid.errors[0].dataPath + ' ' + valid.errors[0].keyword
  const wrong = crossReferences(job)
  return wrong ? '-rule: ' + wrong : '+'
}

const input = fs.readFileSync(0)
const out = []
for (let at = 0; at < input.length;) {
  const end = input.indexOf(10, at)
  const n = Number(input.toString('latin1', at, end))
  out.push(verdict(input.toString('utf8', end + 1, end + 1 + n)).replace(/[\r\n]/g, ' '))
  at = end + 1 + n
}
fs.writeFileSync(1, out.join('\n') + '\n')
