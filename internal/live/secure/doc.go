// Package secure authenticates the peers of a server and authorises their requests.
//
// A server that other machines can reach must use TLS and must authenticate every
// client: by a token, which the client sends with each request and of which the
// server stores only a hash, or by a certificate of the cluster's own authority,
// whose organisation names the client's role.
//
//	request ─► Server: time-outs, limits on headers and slow clients
//	        ─► Guard: token or certificate ─► Identity in the context, or 401
//	        ─► handler ─► Rules.May(identity, action, subject) ─► nil, or *Denied
//
// Listen enforces this: it refuses an address other than loopback unless it gets a
// TLS configuration and a Guard that authenticates. Authorisation is one pure
// function, Rules.May. Secrets never appear in logs or errors.
//
// Two tests make every request that the servers answer as every role: TestDoors in
// internal/live/master and TestWorkerDoors in internal/live/worker. A new path or call
// without a rule fails them. TestServerRoles and TestClientRoles try every certificate with
// every client and server.
//
// # Threats and defences
//
// The defences are here and in the packages that read what users, jobs and peers send.
//
//   - An unknown client sends requests to the master or a worker. Defence: It gets 401 before
//     the request's body is read. Refusals are logged, at most ten per second.
//   - An attacker reads or changes network traffic. Defence: TLS 1.3 only. Clients verify the
//     master's name and role, and that the authority has issued a worker's certificate for a
//     worker.
//   - A holder of a worker's key, such as a job's code, poses as the master and collects
//     tokens. Defence: The role in the certificate, and no name of the master in a worker's.
//   - A name that a terminal obeys or that looks like another's: escape sequences, line
//     separators, bidirectional overrides, invisible characters. Defence: Names of jobs,
//     users, groups, pools, workers, hosts, racks, apps, steps, shipped files and parameters
//     must not contain control characters (C0, C1), line or paragraph separators, or format
//     characters (Unicode Cc, Cf, Zl, Zp). The master refuses them, and so do the commands. In
//     names of counters they become U+FFFD.
//   - A stranger's worker takes tasks, and with them code and data. Defence: It needs the role
//     worker.
//   - A user changes another user's job or uses a closed pool. Defence: The rules. The owner
//     of a job is the authenticated user, not a field of the request.
//   - A user's code, running as an attempt, acts as the worker. Defence: The attempt never
//     gets the worker's key or token. It gets the authority and its own job's shuffle secret,
//     which lets it read that job's map outputs and nothing else.
//   - A user's code becomes another user of the machine, or root, on a worker with --run-as
//     owner. Defence: The user's name is the authenticated one, and the journal says of each
//     job whether it was. uid 0 and uids below 1000 are refused. The worker follows no link
//     and opens no pipe that a user has made, and passes on no descriptor, terminal or secret
//     of its own.
//   - A chain's function, running as a driver, acts as another user or outside its chain.
//     Defence: The driver gets a token with the order to start. It is an HMAC of
//     160 bits under a secret of the master's process; the journal holds only its SHA-256. It
//     is valid until the chain ends or another driver is started, also on a cluster without
//     authentication. Invented tokens are refused by a look into a table, without work for the
//     master's loop. The master sets the owner, pool, priority and executable of a step from
//     the chain. Who may use the chain's pool is checked when the chain is submitted or moved.
//   - A job's process writes a file or message that takes much memory to read: a run file with
//     a huge index, a long message, a full directory, an endless environment, a pipe in place
//     of a file. Defence: The worker reads them with a bound that does not depend on what they
//     say: indexes in pieces and with the job's number of partitions, messages up to 512 KiB,
//     logs and names in directories up to a number. A map whose output lies fails.
//   - A job reads another job's map outputs. Defence: Each job has its own secret, and
//     requests carry an HMAC of the path.
//   - Names such as ../../etc/passwd. Defence: Names of jobs and attempts consist of letters,
//     digits, _ and -. Outputs are opened below their directory and links that leave it are
//     not followed. Shipped files are stored under their SHA-256.
//   - Shell injection. Defence: The commands of a streaming job run in a shell as their author
//     wrote them, in the attempt only. No other input reaches a shell.
//   - A web page in a local browser calls an open server on loopback through a host name that
//     resolves to it (DNS rebinding). Defence: Such a server accepts only requests addressed
//     to localhost or a loopback address.
//   - Messages or headers that exhaust memory. Defence: Headers are limited to 64 KiB, and
//     each message has a limit. The memory of a message is estimated before it is decoded, and
//     counts against its sender's share. Uploads are counted and hashed while they are written
//     to disk.
//   - Clients that connect and send nothing, or a byte per minute. Defence: Time limits: 10 s
//     for the handshake and header, 30 s for the next bytes of a body, 1 min for the client to
//     accept the next bytes of a response, 3 min between requests.
//   - Input whose keys are chosen to collide in a hash table. Defence: The table that folds
//     values has a random seed for each process. Other tables are Go's, which are seeded, too.
//     The order of output does not depend on a seed.
//   - A user's output replaces the master's journal, or makes the master connect to any host.
//     Defence: Storage roots, and the daemons' own files, which no job may name.
//   - A job puts a link, a pipe or a hard link where the master stages, publishes, aborts or
//     removes output, or where any process of slotwise keeps scratch files. Defence: Below
//     such directories every path is opened directory by directory, without following links
//     (durable.Shared). Files are always new ones, and pipes are not opened. The staging's
//     root, with its markers, can be written by its owner only. A linter forbids other calls
//     in these packages.
//   - Garbage on a port. Defence: It is refused and logged; fuzz tests cover it.
//   - A stolen tokens file. Defence: It holds hashes only.
//   - Keys and tokens that other users can read. Defence: Files are created with mode 0600. A
//     key or tokens file that other users can read, or that its group can write, is refused.
//   - A page of another site makes a user's browser send requests to the master. Defence: The
//     console refuses POST requests from pages of other sites (Sec-Fetch-Site, Origin). GET
//     changes nothing. No page may be framed.
//   - A job's name, an error or a log runs as code in a browser or a spreadsheet. Defence:
//     Templates escape by context. The content security policy allows no code but the
//     console's own file. Text in CSV that a spreadsheet takes for a formula gets an
//     apostrophe.
package secure
