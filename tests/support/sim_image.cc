#include "tests/support/sim_image.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

using veneer::FileType;

namespace {

constexpr std::uint64_t kMany = std::uint64_t{1} << 62;

std::uint64_t Mix(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

void Add(std::uint64_t& hash, std::uint64_t value) { hash = Mix(hash ^ value); }
void Add(std::uint64_t& hash, std::string_view text) { Add(hash, std::hash<std::string_view>{}(text)); }

const SimBytes& Nothing() {
  static const SimBytes empty = MakeSimBytes("");
  return empty;
}

// What a cut can leave of a file whose bytes `kept` were on their way to a disk that has `durable`; the durable ones first.
std::vector<SimBytes> Remainders(const SimBytes& durable, const SimBytes& kept) {
  std::vector<SimBytes> remainders{durable};
  const auto add = [&remainders](std::string bytes) {
    const auto same = [&bytes](const SimBytes& known) { return known->bytes == bytes; };
    if (std::ranges::none_of(remainders, same)) remainders.push_back(MakeSimBytes(std::move(bytes)));
  };
  const std::string &before = durable->bytes, &after = kept->bytes;
  if (after.size() > before.size() || !before.starts_with(after)) {  // not only cut off
    const auto differ = std::ranges::mismatch(before, after);
    const auto common = static_cast<std::size_t>(differ.in2 - after.begin());
    const std::size_t half = (after.size() - common) / 2;
    add(after.substr(0, common + half));                                                    // a prefix
    add(after.substr(0, common) + std::string(half, '\0') + after.substr(common + half));   // the first half is torn out
    add(after.substr(0, common + half) + std::string(after.size() - common - half, '\0'));  // the second half
    add(after.substr(0, common) + std::string(after.size() - common, '\0'));                // the right length of zeros
  }
  add(after);
  return remainders;
}

std::uint64_t SaturatingProduct(std::uint64_t a, std::uint64_t b) { return a != 0 && b > kMany / a ? kMany : a * b; }

}  // namespace

SimBytes MakeSimBytes(std::string bytes) {
  const std::size_t hash = std::hash<std::string>{}(bytes);
  return std::make_shared<const SimContent>(SimContent{std::move(bytes), hash});
}

SimImage::SimImage(std::uint64_t seed) : random_(Mix(seed)) {
  SimNode root;
  root.type = FileType::kDirectory;
  root.permissions = root.durable_permissions = 0755;
  nodes_[kRoot] = std::make_shared<const SimNode>(std::move(root));
}

SimNode& SimImage::Change(SimInode inode) {
  std::shared_ptr<const SimNode>& node = nodes_.at(inode);
  auto own = std::make_shared<SimNode>(*node);
  SimNode& changed = *own;
  node = std::move(own);
  return changed;
}

SimInode SimImage::AddNode(FileType type, std::uint32_t permissions) {
  SimNode node;
  node.type = type;
  node.permissions = node.durable_permissions = permissions;
  node.mtime_ns = node.ctime_ns = wall_ns;
  node.seen = node.kept = node.durable = Nothing();
  nodes_[next_] = std::make_shared<const SimNode>(std::move(node));
  return next_++;
}

void SimImage::ChangeDirectories(std::vector<Edit> edits) {
  Pending pending;
  for (const Edit& edit : edits) {
    auto& names = Change(edit.dir).names;
    if (edit.target == 0) {
      names.erase(edit.name);
    } else {
      names[edit.name] = edit.target;
    }
    pending.unsynced.insert(edit.dir);
  }
  pending.edits = std::move(edits);
  pending_.push_back(std::move(pending));
}

void SimImage::SyncFile(SimInode inode, bool fails) {
  SimNode& file = Change(inode);
  if (fails) {
    file.kept = file.durable;
  } else {
    file.durable = file.kept;
    file.durable_permissions = file.permissions;
  }
}

// A change that waits for another directory keeps later ones of the same names waiting.
void SimImage::SyncDirectory(SimInode inode) {
  std::set<std::pair<SimInode, std::string>> waiting;
  std::vector<Pending> left;
  for (Pending& pending : pending_) {
    pending.unsynced.erase(inode);
    const auto blocked = [&waiting](const Edit& edit) { return waiting.contains({edit.dir, edit.name}); };
    if (!pending.unsynced.empty() || std::ranges::any_of(pending.edits, blocked)) {
      for (const Edit& edit : pending.edits) waiting.insert({edit.dir, edit.name});
      left.push_back(std::move(pending));
      continue;
    }
    for (const Edit& edit : pending.edits) {
      auto& names = Change(edit.dir).durable_names;
      if (edit.target == 0) {
        names.erase(edit.name);
      } else {
        names[edit.name] = edit.target;
      }
    }
  }
  pending_ = std::move(left);
}

SimImage::Choices SimImage::AllChoices(CutOrder order) const {
  Choices choices;
  const std::size_t changes = pending_.size();
  choices.changes = order == CutOrder::kOrdered ? changes + 1 : changes < 62 ? std::uint64_t{1} << changes : kMany;
  std::set<SimInode> named;
  for (const auto& [inode, node] : nodes_)
    for (const auto& [name, target] : node->durable_names) named.insert(target);
  for (const Pending& pending : pending_)
    for (const Edit& edit : pending.edits) named.insert(edit.target);
  for (const SimInode inode : named) {
    if (inode == 0) continue;
    const SimNode& file = node(inode);
    if (file.type == FileType::kRegular && file.kept != file.durable)
      choices.files.emplace_back(inode, Remainders(file.durable, file.kept));
  }
  return choices;
}

std::uint64_t SimImage::Cuts(CutOrder order) const {
  const Choices choices = AllChoices(order);
  std::uint64_t count = choices.changes;
  for (const auto& file : choices.files) count = SaturatingProduct(count, file.second.size());
  return count;
}

SimImage SimImage::PowerCut(CutOrder order, std::uint64_t choice) const {
  const Choices choices = AllChoices(order);
  SimImage image(*this);
  const std::uint64_t changes = choice % choices.changes;
  choice /= choices.changes;
  image.pending_.clear();
  for (const auto& [inode, node] : nodes_) {
    if (node->type == FileType::kDirectory && node->names != node->durable_names) image.Change(inode).names = node->durable_names;
    if (node->type == FileType::kRegular &&
        (node->kept != node->durable || node->seen != node->durable || node->permissions != node->durable_permissions)) {
      SimNode& file = image.Change(inode);
      file.seen = file.kept = file.durable;
      file.permissions = file.durable_permissions;
    }
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const bool survives = order == CutOrder::kOrdered ? i < changes : (changes >> i & 1) != 0;
    if (!survives) continue;
    for (const Edit& edit : pending_[i].edits) {
      auto& names = image.Change(edit.dir).names;
      if (edit.target == 0) {
        names.erase(edit.name);
      } else {
        names[edit.name] = edit.target;
      }
    }
  }
  for (const auto& [inode, remainders] : choices.files) {
    SimNode& file = image.Change(inode);
    const std::uint64_t remainder = choice % remainders.size();
    choice /= remainders.size();
    file.seen = file.kept = file.durable = remainders[remainder];
    if (remainder > 0) file.permissions = file.durable_permissions = node(inode).permissions;
  }
  for (const auto& [inode, node] : image.nodes_) {
    if (node->names == node->durable_names) continue;
    SimNode& dir = image.Change(inode);
    dir.durable_names = dir.names;
  }
  image.DropUnreachable();
  return image;
}

void SimImage::SyncAll() {
  pending_.clear();
  for (const auto& [inode, node] : nodes_) {
    SimNode& changed = Change(inode);
    changed.durable_names = changed.names;
    changed.kept = changed.durable = changed.seen;
    changed.durable_permissions = changed.permissions;
  }
  DropUnreachable();
}

void SimImage::DropUnreachable() {
  std::set<SimInode> reached{kRoot};
  std::vector<SimInode> todo{kRoot};
  while (!todo.empty()) {
    const SimInode inode = todo.back();
    todo.pop_back();
    for (const auto& [name, target] : node(inode).names)
      if (reached.insert(target).second) todo.push_back(target);
  }
  std::erase_if(nodes_, [&reached](const auto& entry) { return !reached.contains(entry.first); });
}

void SimImage::HashTree(SimInode inode, SimInode without, std::uint64_t& hash) const {
  if (inode == without) return;
  const SimNode& here = node(inode);
  Add(hash, here.permissions);
  if (here.type == FileType::kRegular) return Add(hash, here.seen->hash);
  for (const auto& [name, target] : here.names) {
    Add(hash, name);
    HashTree(target, without, hash);
  }
  Add(hash, 0);
}

std::uint64_t SimImage::Fingerprint(std::string_view without) const {
  std::uint64_t hash = 0;
  HashTree(kRoot, without.empty() ? 0 : Find(without), hash);
  return hash;
}

std::uint64_t SimImage::FullFingerprint(std::string_view without) const {
  std::uint64_t hash = Fingerprint(without);
  const SimInode skipped = without.empty() ? 0 : Find(without);
  for (const Pending& pending : pending_) {
    for (const Edit& edit : pending.edits) {
      if (edit.dir == skipped) continue;
      Add(hash, edit.dir);
      Add(hash, edit.name);
      Add(hash, edit.target == 0 ? 0 : node(edit.target).seen->hash + 1);
    }
    Add(hash, 1);
  }
  for (const auto& [inode, node] : nodes_) {
    if (node->type != FileType::kRegular || node->kept == node->durable) continue;
    Add(hash, inode);
    Add(hash, node->durable->hash);
    Add(hash, node->kept->hash);
  }
  return hash;
}

SimInode SimImage::Find(std::string_view path) const {
  SimInode inode = kRoot;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const auto& names = node(inode).names;
    const auto found = names.find(std::string(path.substr(0, end)));
    if (found == names.end()) return 0;
    inode = found->second;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return inode;
}

std::optional<std::string> SimImage::Read(std::string_view path) const {
  const SimInode inode = Find(path);
  if (inode == 0 || node(inode).type != FileType::kRegular) return std::nullopt;
  return node(inode).seen->bytes;
}

std::optional<std::uint32_t> SimImage::Permissions(std::string_view path) const {
  const SimInode inode = Find(path);
  if (inode == 0) return std::nullopt;
  return node(inode).permissions;
}

std::vector<std::string> SimImage::List(std::string_view path) const {
  const SimInode inode = Find(path);
  std::vector<std::string> names;
  if (inode != 0)
    for (const auto& entry : node(inode).names) names.push_back(entry.first);
  return names;
}

bool SimImage::IsDirectory(std::string_view path) const {
  const SimInode inode = Find(path);
  return inode != 0 && node(inode).type == FileType::kDirectory;
}

void SimImage::Place(std::string_view path, SimInode inode) {
  const std::size_t slash = path.rfind('/');
  const SimInode dir = slash == std::string_view::npos ? kRoot : Find(path.substr(0, slash));
  if (dir == 0) throw std::invalid_argument("no directory for " + std::string(path));
  const std::string name(path.substr(slash == std::string_view::npos ? 0 : slash + 1));
  SimNode& parent = Change(dir);
  parent.names[name] = parent.durable_names[name] = inode;
}

void SimImage::Write(std::string_view path, std::string bytes, std::uint32_t permissions) {
  SimInode inode = Find(path);
  if (inode == 0) {
    inode = AddNode(FileType::kRegular, permissions);
    Place(path, inode);
  }
  SimNode& file = Change(inode);
  file.seen = file.kept = file.durable = MakeSimBytes(std::move(bytes));
}

void SimImage::MakeDirectory(std::string_view path, std::uint32_t permissions) { Place(path, AddNode(FileType::kDirectory, permissions)); }

void SimImage::Remove(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const SimInode dir = slash == std::string_view::npos ? kRoot : Find(path.substr(0, slash));
  const std::string name(path.substr(slash == std::string_view::npos ? 0 : slash + 1));
  SimNode& parent = Change(dir);
  parent.names.erase(name);
  parent.durable_names.erase(name);
}

std::uint64_t SimImage::Links(SimInode inode) const {
  std::uint64_t links = 0;
  for (const auto& [dir, node] : nodes_)
    for (const auto& [name, target] : node->names) links += target == inode ? 1 : 0;
  return links;
}

std::uint64_t SimImage::NextRandom() {
  random_ += 0x9e3779b97f4a7c15;
  return Mix(random_);
}
