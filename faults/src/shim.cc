// RocksDB's FaultInjectionTestFS, and over it a layer that fails the n-th call of a kind.
//
// FaultInjectionTestFS keeps what is not synced in memory, so that a power cut can lose it. It
// fails calls at random and by thread; a test that repeats needs the n-th, whichever thread makes
// it. And a cut loses all that is not synced; real ones lose a part, so `Cut` lets a random
// beginning of each file through.
//
// One mutex guards the plan and the open files; no call into RocksDB is made under it but RangeSync
// of a file, which takes locks of its own only.

#include <mutex>
#include <random>
#include <set>

#include "rocksdb/env.h"
#include "utilities/fault_injection_fs.h"

using namespace ROCKSDB_NAMESPACE;

// As in RocksDB's C interface, which frees it.
struct rocksdb_env_t {
  Env* rep;
  bool is_default;
};

namespace {

enum Call : uint32_t { kWrite = 1, kSync = 2, kName = 4, kRead = 8 };
enum Kind : int { kIoError = 0, kNoSpace = 1, kRetryable = 2 };
enum Due { kNo, kBefore, kAfter };

class File;

class Faults : public FileSystemWrapper {
 public:
  explicit Faults(const std::shared_ptr<FaultInjectionTestFS>& under)
      : FileSystemWrapper(under), under_(under) {}

  static const char* kClassName() { return "Faults"; }
  const char* Name() const override { return kClassName(); }

  void Fail(uint32_t calls, uint64_t nth, uint64_t times, int kind,
            bool after) {
    std::lock_guard<std::mutex> lock(mutex_);
    calls_ = calls;
    left_ = nth;
    times_ = times;
    kind_ = kind;
    after_ = after;
  }

  uint64_t Failed() {
    std::lock_guard<std::mutex> lock(mutex_);
    return failed_;
  }

  void Cut(uint64_t seed);
  int Restore();

  template <typename F>
  IOStatus Run(Call call, F&& run) {
    switch (IsDue(call)) {
      case kNo:
        return run();
      case kBefore:
        return Error();
      case kAfter:
        run().PermitUncheckedError();
        return Error();
    }
    return IOStatus::OK();
  }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file,
                           IODebugContext* dbg) override;
  IOStatus ReopenWritableFile(const std::string& name,
                              const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* file,
                              IODebugContext* dbg) override;
  IOStatus NewRandomAccessFile(const std::string& name,
                               const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* file,
                               IODebugContext* dbg) override;
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* dir,
                        IODebugContext* dbg) override;
  IOStatus RenameFile(const std::string& from, const std::string& to,
                      const IOOptions& options, IODebugContext* dbg) override {
    return Run(kName, [&] { return target()->RenameFile(from, to, options, dbg); });
  }
  IOStatus LinkFile(const std::string& from, const std::string& to,
                    const IOOptions& options, IODebugContext* dbg) override {
    return Run(kName, [&] { return target()->LinkFile(from, to, options, dbg); });
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options,
                      IODebugContext* dbg) override {
    return Run(kName, [&] { return target()->DeleteFile(name, options, dbg); });
  }

  void Opened(File* file) {
    std::lock_guard<std::mutex> lock(mutex_);
    open_.insert(file);
  }
  void Closed(File* file) {
    std::lock_guard<std::mutex> lock(mutex_);
    open_.erase(file);
  }

 private:
  Due IsDue(Call call) {
    std::lock_guard<std::mutex> lock(mutex_);
    if ((calls_ & call) == 0 || times_ == 0) return kNo;
    if (left_ > 1) {
      left_ -= 1;
      return kNo;
    }
    times_ -= 1;
    failed_ += 1;
    return after_ ? kAfter : kBefore;
  }

  IOStatus Error() const {
    if (kind_ == kNoSpace) return IOStatus::NoSpace("injected");
    IOStatus error = IOStatus::IOError("injected");
    error.SetRetryable(kind_ == kRetryable);
    return error;
  }

  std::shared_ptr<FaultInjectionTestFS> under_;
  std::mutex mutex_;
  std::set<File*> open_;
  uint32_t calls_ = 0;
  uint64_t left_ = 0;
  uint64_t times_ = 0;
  uint64_t failed_ = 0;
  int kind_ = kIoError;
  bool after_ = false;
};

// A file that is written, and how far it is written and synced.
class File : public FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<FSWritableFile>&& file, Faults* faults)
      : FSWritableFileOwnerWrapper(std::move(file)), faults_(faults) {
    faults_->Opened(this);
  }
  ~File() override { faults_->Closed(this); }

  IOStatus Append(const Slice& data, const IOOptions& options,
                  IODebugContext* dbg) override {
    return Write(data.size(), [&] { return target()->Append(data, options, dbg); });
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const DataVerificationInfo& info,
                  IODebugContext* dbg) override {
    return Write(data.size(),
                 [&] { return target()->Append(data, options, info, dbg); });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    return SyncBy([&] { return target()->Sync(options, dbg); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return SyncBy([&] { return target()->Fsync(options, dbg); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    faults_->Closed(this);
    return target()->Close(options, dbg);
  }

  // Lets a beginning of what is not synced reach the disk.
  void KeepSome(std::mt19937_64& random) {
    uint64_t unsynced = written_ - synced_;
    uint64_t kept = random() % (unsynced + 1);
    if (kept > 0) {
      target()->RangeSync(synced_, kept, IOOptions(), nullptr)
          .PermitUncheckedError();
    }
  }

 private:
  template <typename F>
  IOStatus Write(uint64_t size, F&& append) {
    return faults_->Run(kWrite, [&] {
      IOStatus status = append();
      if (status.ok()) written_ += size;
      return status;
    });
  }
  template <typename F>
  IOStatus SyncBy(F&& sync) {
    return faults_->Run(kSync, [&] {
      uint64_t written = written_;
      IOStatus status = sync();
      if (status.ok()) synced_ = written;
      return status;
    });
  }

  Faults* faults_;
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> synced_{0};
};

class Reader : public FSRandomAccessFileOwnerWrapper {
 public:
  Reader(std::unique_ptr<FSRandomAccessFile>&& file, Faults* faults)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), faults_(faults) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options,
                Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    return faults_->Run(kRead, [&] {
      return target()->Read(offset, n, options, result, scratch, dbg);
    });
  }
  IOStatus MultiRead(FSReadRequest* requests, size_t count,
                     const IOOptions& options, IODebugContext* dbg) override {
    return faults_->Run(
        kRead, [&] { return target()->MultiRead(requests, count, options, dbg); });
  }

 private:
  Faults* faults_;
};

class Directory : public FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<FSDirectory>&& dir, Faults* faults)
      : FSDirectoryWrapper(std::move(dir)), faults_(faults) {}

  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* dbg,
                               const DirFsyncOptions& how) override {
    return faults_->Run(kSync, [&] {
      return FSDirectoryWrapper::FsyncWithDirOptions(options, dbg, how);
    });
  }

 private:
  Faults* faults_;
};

IOStatus Faults::NewWritableFile(const std::string& name,
                                 const FileOptions& options,
                                 std::unique_ptr<FSWritableFile>* file,
                                 IODebugContext* dbg) {
  IOStatus status = Run(kName, [&] {
    return target()->NewWritableFile(name, options, file, dbg);
  });
  if (status.ok()) file->reset(new File(std::move(*file), this));
  return status;
}

IOStatus Faults::ReopenWritableFile(const std::string& name,
                                    const FileOptions& options,
                                    std::unique_ptr<FSWritableFile>* file,
                                    IODebugContext* dbg) {
  IOStatus status = Run(kName, [&] {
    return target()->ReopenWritableFile(name, options, file, dbg);
  });
  if (status.ok()) file->reset(new File(std::move(*file), this));
  return status;
}

IOStatus Faults::NewRandomAccessFile(const std::string& name,
                                     const FileOptions& options,
                                     std::unique_ptr<FSRandomAccessFile>* file,
                                     IODebugContext* dbg) {
  IOStatus status = Run(kRead, [&] {
    return target()->NewRandomAccessFile(name, options, file, dbg);
  });
  if (status.ok()) file->reset(new Reader(std::move(*file), this));
  return status;
}

IOStatus Faults::NewDirectory(const std::string& name, const IOOptions& options,
                              std::unique_ptr<FSDirectory>* dir,
                              IODebugContext* dbg) {
  IOStatus status = target()->NewDirectory(name, options, dir, dbg);
  if (status.ok()) dir->reset(new Directory(std::move(*dir), this));
  return status;
}

void Faults::Cut(uint64_t seed) {
  if (seed != 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::mt19937_64 random(seed);
    for (File* file : open_) file->KeepSome(random);
  }
  under_->SetFilesystemActive(false, IOStatus::IOError("no power"));
}

int Faults::Restore() {
  Fail(0, 0, 0, kIoError, false);
  under_->SetFilesystemActive(true);
  IOStatus dropped = under_->DropUnsyncedFileData();
  IOStatus removed =
      under_->DeleteFilesCreatedAfterLastDirSync(IOOptions(), nullptr);
  under_->ResetState();
  return dropped.ok() && (removed.ok() || removed.IsNotFound() ||
                          removed.IsPathNotFound())
             ? 0
             : 1;
}

}  // namespace

struct faults_t {
  std::shared_ptr<Faults> faults;
};

extern "C" {

faults_t* faults_new() {
  auto under = std::make_shared<FaultInjectionTestFS>(FileSystem::Default());
  under->SetInjectUnsyncedDataLoss(true);
  under->SetAllowLinkOpenFile(true);
  return new faults_t{std::make_shared<Faults>(under)};
}

void faults_free(faults_t* f) { delete f; }

rocksdb_env_t* faults_env(faults_t* f) {
  return new rocksdb_env_t{NewCompositeEnv(f->faults).release(), false};
}

void faults_fail(faults_t* f, uint32_t calls, uint64_t nth, uint64_t times,
                 int kind, bool after) {
  f->faults->Fail(calls, nth, times, kind, after);
}

uint64_t faults_failed(faults_t* f) { return f->faults->Failed(); }

void faults_cut(faults_t* f, uint64_t seed) { f->faults->Cut(seed); }

int faults_restore(faults_t* f) { return f->faults->Restore(); }
}
