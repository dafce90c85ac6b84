/**
 * Of the standard library what host sides of kernels use most: declared and never run, so that they can be parsed.
 */
#pragma once

namespace std {

template <typename T> struct unique_ptr {
    unique_ptr(T *pointer = nullptr);
    T *get() const;
    T *release();
    void reset(T *pointer = nullptr);
    T &operator*() const;
    T *operator->() const;
    explicit operator bool() const;
};
template <typename T> struct unique_ptr<T[]> {
    unique_ptr(T *pointer = nullptr);
    T *get() const;
    T *release();
    void reset(T *pointer = nullptr);
    T &operator[](size_t i) const;
    explicit operator bool() const;
};
template <typename T, typename... A> unique_ptr<T> make_unique(A &&...arguments);
template <typename T> struct vector {
    using value_type = T;
    vector();
    explicit vector(size_t, const T & = T());
    template <typename I> vector(I, I);
    vector(const vector &);
    vector &operator=(const vector &);
    ~vector();
    T &operator[](size_t);
    const T &operator[](size_t) const;
    T *data();
    const T *data() const;
    T *begin();
    T *end();
    const T *begin() const;
    const T *end() const;
    T &front();
    T &back();
    size_t size() const;
    bool empty() const;
    void push_back(const T &);
    template <typename... A> T &emplace_back(const A &...);
    void resize(size_t, const T & = T());
    void reserve(size_t);
    void assign(size_t, const T &);
    void clear();
};

struct string {
    string(const char * = "");
    string(const string &);
    string &operator=(const string &);
    ~string();
    const char *c_str() const;
    size_t size() const;
    bool empty() const;
    string &operator+=(const string &);
    bool operator==(const string &) const;
};
string operator+(const string &, const string &);
template <typename T> string to_string(T);

struct ostream {
    template <typename T> ostream &operator<<(const T &);
    ostream &operator<<(ostream &(*)(ostream &));
};
extern ostream cout, cerr;
ostream &endl(ostream &);
struct setprecision {
    setprecision(int);
};

struct exception {
    const char *what() const;
};
struct runtime_error : exception {
    runtime_error(const string &);
};

template <typename I, typename T> void fill(I, I, const T &);
template <typename I, typename F> void generate(I, I, F);
template <typename I> void iota(I, I, int);

struct random_device {
    unsigned operator()();
};
struct mt19937 {
    mt19937(unsigned = 0);
    unsigned operator()();
};
template <typename T> struct uniform_real_distribution {
    uniform_real_distribution(T = 0, T = 1);
    template <typename G> T operator()(G &);
};
template <typename T> struct normal_distribution {
    normal_distribution(T = 0, T = 1);
    template <typename G> T operator()(G &);
};
template <typename T> struct uniform_int_distribution {
    uniform_int_distribution(T = 0, T = __INT_MAX__);
    template <typename G> T operator()(G &);
};

template <typename T> struct optional {
    optional();
    optional(const T &);
    explicit operator bool() const;
    bool has_value() const;
    const T &value() const;
    const T &operator*() const;
    const T *operator->() const;
};
template <typename K, typename V> struct key_and_value {
    K first;
    V second;
};
template <typename K, typename V> struct map {
    map();
    ~map();
    V &operator[](const K &);
    V &at(const K &);
    size_t count(const K &) const;
    size_t size() const;
    bool empty() const;
    key_and_value<K, V> *find(const K &);
    key_and_value<K, V> *begin();
    key_and_value<K, V> *end();
    void clear();
};
template <typename K, typename V> struct unordered_map : map<K, V> {};

struct mutex {
    void lock();
    void unlock();
};
template <typename M> struct lock_guard {
    explicit lock_guard(M &);
    ~lock_guard();
};
struct thread {
    template <typename F, typename... A> explicit thread(F, A &&...) {}
    void join();
};
struct ifstream {
    explicit ifstream(const string &, int = 0);
    explicit operator bool() const;
    ifstream &read(char *, long);
    template <typename T> ifstream &operator>>(T &);
};
struct ofstream : ostream {
    explicit ofstream(const string &, int = 0);
    explicit operator bool() const;
    ofstream &write(const char *, long);
};
struct ios {
    static constexpr int in = 1, out = 2, binary = 4;
};
struct string_view {
    string_view(const char * = "");
    string_view(const string &);
    const char *data() const;
    size_t size() const;
    bool operator==(const string_view &) const;
};

} // namespace std
