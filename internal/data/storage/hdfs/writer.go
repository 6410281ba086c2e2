package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// replicationLimit bounds the wait for DataNodes to report the last block.
const replicationLimit = time.Minute

// writer implements storage.TempFile. One goroutine uses it.
//
// Hadoop's protocol survives the loss of DataNodes, but the client library does not
// implement that part. So the writer has its own connection to the NameNode and speaks
// the data transfer protocol itself:
//
//	a DataNode fails before it has accepted a block
//	    abandonBlock, then addBlock again with the DataNode excluded
//	a DataNode fails while a block is written
//	    updateBlockForPipeline gives the block a new generation; the other DataNodes are
//	    connected again and report nothing lost that was acknowledged; updatePipeline
//	    tells the NameNode which DataNodes are left; the packets without acknowledgement
//	    are sent again
//
// A block whose DataNodes have all failed is lost, and the task must be tried again. A
// block with fewer replicas than it should have gets the others from the NameNode when
// the file is complete.
type writer struct {
	ctx       context.Context
	fs        *FS
	nn        *namenode
	path      string
	file      uint64 // the NameNode's number of the file
	blockSize int64
	packet    []byte  // not sent yet, at most packetSize bytes
	last      message // the latest complete block, as ExtendedBlockProto
	block     *openBlock
	err       error // after which the writer can only be removed
}

// openBlock is the block that is being written.
//
// sent counts bytes that were handed to the pipeline. After a recovery it stays, since the packets beyond
// acked are sent again from memory.
type openBlock struct {
	*pipeline
	extent extent
	token  []byte
	sent   int64 // bytes, as packets
	seq    int64 // of the next packet
}

// newWriter begins a file.
func (f *FS) newWriter(ctx context.Context, path string) (*writer, error) {
	var defaults hdfs.ServerDefaults
	err := f.do(ctx, func(c *hdfs.Client) (err error) {
		defaults, err = c.ServerDefaults()
		return err
	})
	if err != nil {
		return nil, err
	}
	w := &writer{ctx: ctx, fs: f, nn: newNamenode(f), path: path, blockSize: defaults.BlockSize}
	if f.settings.blockSize > 0 {
		w.blockSize = f.settings.blockSize
	}
	const createNew = 1 // a flag: the file must not exist
	// A repeated create with the same number returns the first answer. Otherwise the second try would find
	// the file that the first one has made.
	answer, err := w.nn.call(ctx, "create", message{}.text(1, path).data(2, message{}.number(1, uint64(f.settings.fileMode()))).text(3, w.nn.name).
		number(4, createNew).number(5, 0).number(6, uint64(defaults.Replication)).number(7, uint64(w.blockSize)))
	var status fields
	if err == nil {
		status, err = parse(answer.data(1))
	}
	if err != nil {
		w.nn.close()
		return nil, err
	}
	w.file = status.number(13)
	return w, nil
}

// Path implements storage.TempFile.
func (w *writer) Path() string { return w.path }

// Write implements io.Writer. Data leave in packets.
func (w *writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if w.err != nil {
			return done, w.err
		}
		left := w.blockSize // in the block
		if w.block != nil {
			left -= w.block.sent
		}
		// A block that an append continues may end inside a chunk of data with one checksum. The first
		// packet ends with that chunk: DataNodes store no packet that crosses it.
		if w.block != nil && w.block.sent%chunkSize != 0 {
			left = min(left, chunkSize-w.block.sent%chunkSize)
		}
		room := int(min(packetSize, left)) - len(w.packet)
		n := min(room, len(p)-done)
		w.packet = append(w.packet, p[done:done+n]...)
		done += n
		if n == room {
			w.err = w.flush()
		}
	}
	return done, w.err
}

// flush sends the packet, and ends the block if it is full.
func (w *writer) flush() error {
	if len(w.packet) == 0 {
		return nil
	}
	if w.block == nil {
		if err := w.addBlock(); err != nil {
			return err
		}
	}
	b := w.block
	p := packet{seq: b.seq, offset: b.sent, data: w.packet}
	// The pipeline keeps the packet until all DataNodes have acknowledged it, so the buffer cannot
	// be filled again.
	w.packet = b.buffer()
	b.seq++
	b.sent += int64(len(p.data))
	if err := b.send(p); err != nil {
		if err := w.recover(stageStreamingRecovery, err); err != nil {
			return err
		}
	}
	// At once: Write computes its room from the open block, and a full one has none.
	if b.sent == w.blockSize {
		return w.endBlock()
	}
	return nil
}

// addBlock begins the next block. DataNodes that do not accept it are excluded from the
// next try.
func (w *writer) addBlock() error {
	for failed := 1; ; failed++ {
		extent, token, nodes, err := w.askForBlock()
		if err != nil {
			return err
		}
		s := setup{client: w.nn.name, block: extent, token: token, nodes: nodes, stage: stageCreate, blockSize: w.blockSize}
		p, err := w.fs.newPipeline(w.ctx, s)
		if err == nil {
			w.block = &openBlock{pipeline: p, extent: extent, token: token, seq: 1}
			return p.start(0, nil)
		}
		w.fs.exclude(err)
		// The NameNode would take the next addBlock for a repetition of this one, and offer the
		// same block on the same DataNodes.
		abandon := message{}.data(1, extent.encode(0)).text(2, w.path).text(3, w.nn.name).number(4, w.file)
		if _, aerr := w.nn.call(w.ctx, "abandonBlock", abandon); aerr != nil {
			return errors.Join(err, aerr)
		}
		// Each failure has excluded a DataNode, so this many tries cover a cluster that has lost a rack.
		if failed == attempts {
			return err
		}
	}
}

// askForBlock calls addBlock without the excluded DataNodes. If too few are left, they
// may be back: it asks again and excludes none.
func (w *writer) askForBlock() (extent, []byte, []datanode, error) {
	request := message{}.text(1, w.path).text(2, w.nn.name).number(5, w.file)
	// The NameNode commits the block before with its length when it adds the next one. That is why a block
	// must be complete before addBlock.
	if w.last != nil {
		request = request.data(3, w.last)
	}
	// A copy, because the appends below may write into the same array.
	all := slices.Clone(request)
	excluded := w.fs.excluded()
	for _, info := range excluded {
		request = request.data(4, info)
	}
	answer, err := w.nn.call(w.ctx, "addBlock", request)
	var remote *remoteError
	// The NameNode reports with a plain IOException that it has no DataNodes left to choose from.
	if len(excluded) > 0 && errors.As(err, &remote) && remote.exception == "java.io.IOException" {
		w.fs.includeAll()
		answer, err = w.nn.call(w.ctx, "addBlock", all)
	}
	if err != nil {
		return extent{}, nil, nil, err
	}
	block, token, nodes, err := w.fs.parseLocated(answer.data(1))
	if err == nil && len(nodes) == 0 {
		err = errors.New("the NameNode has offered a block without DataNodes")
	}
	return block, token, nodes, err
}

// recover continues the block without the DataNodes that failed. It returns nil when the
// block has a working pipeline again, or, for stageCloseRecovery, is complete.
func (w *writer) recover(stage uint64, cause error) error {
	// After close no acknowledgement arrives any more, so the two agree.
	acked, unacked := w.block.close()
	return w.connect(stage, acked, unacked, w.block.nodes, cause)
}

// connect connects the DataNodes of the block without the ones that the failure cause names. All
// have acknowledged the first acked bytes of the block. It sends the unacknowledged packets. cause
// is nil for stageAppend, which begins a pipeline for a complete block.
func (w *writer) connect(stage uint64, acked int64, unacked []packet, nodes []datanode, cause error) error {
	b := w.block
	for {
		// A pipeline that the context has ended would be recovered without end: no DataNode is to
		// blame.
		if err := context.Cause(w.ctx); err != nil {
			return err
		}
		// The DataNodes are also kept out of later blocks: each block would fail the same way and
		// cost another time-out.
		w.fs.exclude(cause)
		// A cause that names no DataNode, such as a time-out of the NameNode, leaves all, and the loop tries
		// them again.
		nodes = without(nodes, cause)
		if len(nodes) == 0 {
			return fmt.Errorf("all DataNodes of a block have failed, the last one: %w", cause)
		}
		// Each try has a new generation. A DataNode that fails during a try may have raised
		// its replica to the generation of that try, and must not count when a later one succeeds.
		answer, err := w.nn.call(w.ctx, "updateBlockForPipeline", message{}.data(1, b.extent.encode(acked)).text(2, w.nn.name))
		if err != nil {
			return err
		}
		next, token, _, err := w.fs.parseLocated(answer.data(1))
		if err != nil {
			return err
		}
		// The DataNodes know the block by its present generation and raise it to the next one.
		p, err := w.fs.newPipeline(w.ctx, setup{client: w.nn.name, block: b.extent, token: token, nodes: nodes, stage: stage,
			blockSize: w.blockSize, acked: acked, sent: b.sent, latestGeneration: next.generation})
		if err != nil {
			cause = err
			if stage == stageAppend { // some DataNodes may have reopened the block already
				stage = stageAppendRecovery
			}
			continue
		}
		// The NameNode must know the generation and the DataNodes before more data are sent. From
		// then on it rejects the replicas of DataNodes that dropped out, which will lack these
		// data.
		update := message{}.text(1, w.nn.name).data(2, b.extent.encode(acked)).data(3, next.encode(acked))
		for _, d := range nodes {
			update = update.data(4, d.id)
		}
		// In the order of the DataNodes: the NameNode pairs the two lists by position.
		for _, d := range nodes {
			update = update.text(5, d.storage)
		}
		if _, err := w.nn.call(w.ctx, "updatePipeline", update); err != nil {
			// Not close, which waits for the goroutine that start begins.
			p.release()
			_ = p.conn.Close() // the first error matters
			return err
		}
		// From here on the block has the new generation also for a later recovery.
		b.pipeline, b.extent, b.token = p, next, token
		// endBlock had all data acknowledged before it sent the last packet. The request itself has
		// made the DataNodes complete the block, and they take no more packets.
		if stage == stageCloseRecovery {
			p.release()
			return p.conn.Close()
		}
		if cause = p.start(acked, unacked); cause == nil {
			return nil
		}
		// The block is open from here on.
		if stage == stageAppend || stage == stageAppendRecovery {
			stage = stageStreamingRecovery
		}
		// More may have been acknowledged before this pipeline failed, too.
		acked, unacked = p.close()
	}
}

// endBlock sends the block's last packet and waits until all DataNodes have the block.
func (w *writer) endBlock() error {
	b := w.block
	for err := b.drain(); err != nil; err = b.drain() {
		if err := w.recover(stageStreamingRecovery, err); err != nil {
			return err
		}
	}
	// The empty last packet is sent only now. A DataNode that fails after it needs another kind of
	// recovery, which transfers no data.
	err := b.send(packet{seq: b.seq, offset: b.sent, last: true})
	if err == nil {
		err = b.drain()
	}
	if err != nil {
		err = w.recover(stageCloseRecovery, err)
	} else {
		b.close()
	}
	// After an error, too: the pipeline is closed, and Write and Close return the error before they
	// look at these.
	w.last, w.block = b.extent.encode(b.sent), nil
	return err
}

// Close implements storage.TempFile. It waits until the DataNodes have reported
// the last block.
func (w *writer) Close(ctx context.Context) error {
	if w.err == nil {
		w.err = w.flush()
	}
	// A block that is exactly full was ended by flush.
	if w.err == nil && w.block != nil {
		w.err = w.endBlock()
	}
	if w.err != nil {
		return w.err
	}
	request := message{}.text(1, w.path).text(2, w.nn.name).number(4, w.file)
	if w.last != nil {
		request = request.data(3, w.last)
	}
	return retry.Run(ctx, replication(func(err error) bool { return errors.Is(err, hdfs.ErrReplicating) }), func(ctx context.Context) error {
		// The file becomes visible to readers as complete only by this call. A crash before it leaves a file
		// under a lease, which the NameNode closes with the bytes that it knows, in a staging that is never
		// committed.
		answer, err := w.nn.call(ctx, "complete", request)
		if err != nil {
			return err
		}
		// The NameNode answers false until enough DataNodes have reported the last block, which
		// they do on their own.
		if answer.number(1) == 0 {
			return hdfs.ErrReplicating
		}
		// A Write after this fails. A Remove still removes the complete file.
		w.err = fs.ErrClosed
		w.nn.close()
		return nil
	})
}

// replication returns the options of a retry until the DataNodes have reported a block. They
// do so within milliseconds as a rule, so the pauses begin short.
func replication(retriable func(error) bool) retry.Options {
	return retry.Options{FirstPause: firstPause / 5, LastPause: longestPause, Patience: func(err error) time.Duration {
		if retriable(err) {
			return replicationLimit
		}
		return -1
	}}
}

// Remove implements storage.TempFile. What cannot be removed goes with the
// staging.
func (w *writer) Remove(context.Context) error {
	if w.block != nil {
		w.block.close()
		w.block = nil
	}
	if w.err == nil {
		w.err = fs.ErrClosed
	}
	w.nn.close()
	ctx, cancel := cleaning(w.ctx)
	defer cancel()
	_ = w.fs.remove(ctx, w.path)
	return nil
}

// without returns the DataNodes that a failure does not name.
func without(nodes []datanode, failure error) (left []datanode) {
	var p *pipelineError
	if !errors.As(failure, &p) {
		return nodes
	}
	for _, d := range nodes {
		if !slices.ContainsFunc(p.bad, func(x datanode) bool { return x.addr == d.addr }) {
			left = append(left, d)
		}
	}
	return left
}

// excludeFor is the time for which a DataNode that has failed is not asked for. The
// NameNode gives up a dead DataNode 10.5 minutes after its last heartbeat.
const excludeFor = 10 * time.Minute

// exclude keeps the DataNodes that a failure names out of new blocks.
func (f *FS) exclude(failure error) {
	var p *pipelineError
	if !errors.As(failure, &p) {
		return
	}
	f.bad.mu.Lock()
	defer f.bad.mu.Unlock()
	if f.bad.nodes == nil {
		f.bad.nodes = map[string]badNode{}
	}
	for _, d := range p.bad {
		f.bad.nodes[d.addr] = badNode{d.info, time.Now().Add(excludeFor)}
	}
}

// excluded returns the DataNodes to keep out of new blocks.
func (f *FS) excluded() (infos [][]byte) {
	f.bad.mu.Lock()
	defer f.bad.mu.Unlock()
	//house:sorted the NameNode takes them for a set
	for addr, d := range f.bad.nodes {
		if time.Now().After(d.until) {
			delete(f.bad.nodes, addr)
			continue
		}
		infos = append(infos, d.info)
	}
	return infos
}

// includeAll forgets which DataNodes have failed.
func (f *FS) includeAll() {
	f.bad.mu.Lock()
	defer f.bad.mu.Unlock()
	clear(f.bad.nodes)
}

// badNode is a DataNode that has failed.
type badNode struct {
	info  []byte
	until time.Time
}

var _ storage.TempFile = (*writer)(nil)
