// SPDX-License-Identifier: GPL-2.0-only
/*
 * PID 1 of a node, after init: agent run | shell | node
 *
 *   run    the command in /run/vm/argv (arguments ended by NUL), its output to
 *          ports 2 and 3 of virtio-serial, its exit status to port 1; then off
 *   shell  a login shell on the virtio console; then off
 *   node   the ssh server; says so on port 1; until power is cut
 *
 * The command writes to pipes, not to the ports: a port can be opened only once
 * (so /dev/stderr would fail), and to a checkpoint it is a device. As PID 1 the
 * agent also reaps the orphans of what it runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS 4096

static char text[1 << 20];
static char *args[MAX_ARGS + 1];
static int main_status = -1;

static void off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void die(const char *what)
{
	FILE *kmsg = fopen("/dev/kmsg", "w");

	if (kmsg) {
		fprintf(kmsg, "<2>vm-guest-error: %s: %s\n", what, strerror(errno));
		fclose(kmsg);
	}
	off();
}

static int port(int number)
{
	char name[32];
	int fd, tries;

	snprintf(name, sizeof(name), "/dev/vport0p%d", number);
	/* The driver makes the ports by and by. */
	for (tries = 0; tries < 1000; tries++) {
		fd = open(name, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		usleep(10000);
	}
	die(name);
	return -1;
}

static void put(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t done = write(fd, data, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return; /* the host has gone */
		data += done;
		size -= done;
	}
}

static int load_args(void)
{
	int fd = open("/run/vm/argv", O_RDONLY | O_CLOEXEC), count = 0;
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *p = text;

	if (size <= 0)
		return -1;
	close(fd);
	while (p < text + size && count < MAX_ARGS) {
		args[count++] = p;
		p += strlen(p) + 1;
	}
	return count;
}

static void set_limit(int which, rlim_t soft, rlim_t hard)
{
	struct rlimit limit = { soft, hard };

	setrlimit(which, &limit);
}

static void environment(void)
{
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("USER", "root", 1);
	setenv("LOGNAME", "root", 1);
	setenv("SHELL", "/bin/bash", 1);
	setenv("LANG", "C.UTF-8", 1);
	/* As on an ordinary system. */
	set_limit(RLIMIT_NOFILE, 1024, 524288);
	set_limit(RLIMIT_CORE, 0, RLIM_INFINITY);
	set_limit(RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
	umask(022);
}

static void child_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
}

static void reap(pid_t main_pid)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == main_pid)
			main_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
							    WEXITSTATUS(status);
}

/* Passes on what is there; false when nobody can write there any more. */
static int relay(int from, int to)
{
	static char buffer[65536];
	ssize_t size;

	while ((size = read(from, buffer, sizeof(buffer))) > 0)
		put(to, buffer, size);
	return size < 0 && (errno == EAGAIN || errno == EINTR);
}

static pid_t start(int in, int out, int err)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid)
		return pid;
	setsid();
	child_signals();
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	if (isatty(0))
		ioctl(0, TIOCSCTTY, 0);
	execvp(args[0], args);
	fprintf(stderr, "vm: %s: %s\n", args[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* SIGCHLD as something to poll for. */
static int child_fd(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		die("signalfd");
	return fd;
}

static void run(int merged)
{
	int ctl = port(1), to[2], pipes[2][2], i, count = merged ? 1 : 2, in;
	int children = child_fd();
	struct pollfd polls[3];
	char line[32];
	pid_t pid;

	for (i = 0; i < count; i++) {
		to[i] = port(2 + i);
		if (pipe2(pipes[i], O_CLOEXEC))
			die("pipe");
		/* The reader's end only: the flag belongs to the open file. */
		fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
		polls[i].fd = pipes[i][0];
		polls[i].events = POLLIN;
	}
	polls[count].fd = children;
	polls[count].events = POLLIN;

	if (load_args() <= 0)
		die("/run/vm/argv");
	if (chdir("/mnt/project"))
		die("/mnt/project");
	in = open("/run/vm/stdin", O_RDONLY | O_CLOEXEC);
	if (in < 0)
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	put(ctl, "start\n", 6);
	pid = start(in, pipes[0][1], pipes[count - 1][1]);
	for (i = 0; i < count; i++)
		close(pipes[i][1]);

	while (main_status < 0) {
		if (poll(polls, count + 1, -1) < 0 && errno != EINTR)
			die("poll");
		for (i = 0; i < count; i++)
			if (polls[i].revents && !relay(polls[i].fd, to[i]))
				polls[i].fd = -1;
		if (polls[count].revents) {
			char info[1024];

			if (read(children, info, sizeof(info)) > 0)
				reap(pid);
		}
	}
	/* What it left running is not waited for; what was written counts. */
	for (i = 0; i < count; i++)
		if (polls[i].fd >= 0)
			relay(polls[i].fd, to[i]);
	sync();
	snprintf(line, sizeof(line), "exit %d\n", main_status);
	put(ctl, line, strlen(line));
	off();
}

static void shell(void)
{
	int tty = open("/dev/hvc0", O_RDWR | O_NOCTTY | O_CLOEXEC);
	const char *rows = getenv("rows"), *columns = getenv("columns");
	struct winsize size = { 0 };
	pid_t pid;

	if (tty < 0)
		die("/dev/hvc0");
	size.ws_row = rows ? atoi(rows) : 0;
	size.ws_col = columns ? atoi(columns) : 0;
	if (size.ws_row && size.ws_col)
		ioctl(tty, TIOCSWINSZ, &size);
	if (chdir("/mnt/project"))
		die("/mnt/project");
	args[0] = "bash";
	args[1] = "-l";
	pid = start(tty, tty, tty);
	while (main_status < 0) {
		siginfo_t info;

		waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
		reap(pid);
	}
	off();
}

static void node(void)
{
	int status;
	pid_t pid;

	args[0] = "dropbear";
	args[1] = "-r";
	args[2] = "/etc/dropbear/host";
	pid = fork();
	if (!pid) {
		child_signals();
		execvp(args[0], args);
		_exit(127);
	}
	/* It leaves the foreground once it listens. */
	waitpid(pid, &status, 0);
	if (status)
		die("dropbear");
	put(port(1), "ready\n", 6);
	for (;;)
		if (waitpid(-1, &status, 0) < 0)
			pause();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	signal(SIGPIPE, SIG_IGN);
	environment();
	if (!strcmp(mode, "run"))
		run(!access("/run/vm/merged", F_OK));
	else if (!strcmp(mode, "shell"))
		shell();
	else if (!strcmp(mode, "node"))
		node();
	else
		die("unknown mode");
	return 0;
}
